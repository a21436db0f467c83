"""make_data.py FOLDER [TRAIN EVAL] -- taxi trips of a made-up Chicago, in the columns of the public data set.

Who pays by card tips, the more often the longer the trip; who pays cash does not (drivers do not report it). So there
is something to learn, and a model that learns it is right more often than one that always says "no tip"."""
import csv
import pathlib
import random
import sys

from trainer.data import COLUMNS

PAYMENTS = [("Credit Card", 45), ("Cash", 45), ("Mobile", 4), ("Prcard", 2), ("Unknown", 2), ("No Charge", 1), ("Dispute", 1)]
COMPANIES = [f"{name} {kind}" for name in ("Blue", "Flash", "Sun", "City", "Star") for kind in ("Taxi", "Cab", "Service")]


def trip(chance):
    miles = round(min(50, max(0.1, chance.lognormvariate(0.8, 0.9))), 1)
    seconds = int(min(3600, max(60, miles * chance.uniform(120, 330))))
    payment = chance.choices([p for p, _ in PAYMENTS], [w for _, w in PAYMENTS])[0]
    tips = chance.random() < (0.55 + 0.008 * miles if payment in ("Credit Card", "Mobile") else 0.03)
    area, to = chance.randint(1, 77), chance.randint(1, 77)
    return [int(tips), miles, seconds, int(325 + 225 * miles + seconds / 4), chance.randint(1, 12), chance.randint(0, 23), chance.randint(1, 7),
            area, to, f"1703108{area:04d}", f"1703108{to:04d}", round(chance.uniform(41.7, 42.0), 6), round(chance.uniform(-87.9, -87.6), 6),
            round(chance.uniform(41.7, 42.0), 6), round(chance.uniform(-87.9, -87.6), 6), payment, chance.choice(COMPANIES)]


def main(folder, train=10_000, evaluate=2_000):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    chance = random.Random(19831006)
    for name, count in (("train", train), ("eval", evaluate)):
        with open(pathlib.Path(folder, f"taxi_trips_{name}.csv"), "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            rows.writerows(trip(chance) for _ in range(int(count)))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
