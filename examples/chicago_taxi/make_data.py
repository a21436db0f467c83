"""make_data.py FOLDER: Chicago taxi trips made up by rule, in the columns of the reference trainer.

Who pays by card tips, mostly, and more often on long trips: enough for a model to learn, and nothing to download."""
import os
import random
import sys

HEADER = ("tip,trip_miles,trip_seconds,fare,trip_start_month,trip_start_hour,trip_start_day,pickup_community_area,dropoff_community_area,"
          "pickup_census_tract,dropoff_census_tract,pickup_latitude,pickup_longitude,dropoff_latitude,dropoff_longitude,payment_type,company\n")
PAYMENTS = {"Cash": (50, 0.02), "Credit Card": (40, 0.65), "Mobile": (6, 0.5), "No Charge": (2, 0.0), "Barter": (2, 0.1)}
COMPANIES = [""] + [f"Company {i}" for i in range(40)] + ['"Quoted, Inc."']


def trip(rng):
    miles = min(50.0, 0.1 + rng.expovariate(0.25))
    seconds = min(3600, int(120 + miles * rng.uniform(100, 260)))
    payment = rng.choices(list(PAYMENTS), [weight for weight, _ in PAYMENTS.values()])[0]
    tips = rng.random() < PAYMENTS[payment][1] * (1.2 if miles > 5 else 0.9)
    where = "8,32,,,41.8995,-87.6243,41.8789,-87.6251"
    return "%d,%.1f,%d,%d,%d,%d,%d,%s,%s,%s\n" % (tips, miles, seconds, 325 + int(225 * miles), rng.randrange(1, 13), rng.randrange(24),
                                                 rng.randrange(1, 8), where, payment, rng.choice(COMPANIES))


def main(folder, train=8000, evaluation=2000):
    rng = random.Random(20261116)
    os.makedirs(folder, exist_ok=True)
    for name, rows in (("train.csv", train), ("eval.csv", evaluation)):
        with open(os.path.join(folder, name), "w") as out:
            out.write(HEADER)
            out.writelines(trip(rng) for _ in range(rows))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
