"""make_data.py FOLDER: taxi rides made up by rule, in the columns and files of the reference trainer.

A fare is a start price, a price a mile of the (bent) way and one for the hour, with some noise: enough for a
model to learn, and nothing to download."""
import math
import os
import random
import sys


def ride(rng):
    lon, lat = rng.gauss(-73.98, 0.03), rng.gauss(40.75, 0.03)
    to_lon, to_lat = lon + rng.gauss(0, 0.025), lat + rng.gauss(0, 0.02)
    hour = rng.randrange(24)
    miles = 1.3 * math.hypot((to_lon - lon) * 52.4, (to_lat - lat) * 69.0)
    fare = max(2.5, 2.5 + 2.6 * miles + (1.0 if 16 <= hour < 20 else 0.5 if hour < 6 else 0) + rng.gauss(0, 0.8))
    when = "20%02d-%02d-%02d %02d:%02d:%02d UTC" % (
        rng.randrange(9, 16), rng.randrange(1, 13), rng.randrange(1, 29), hour, rng.randrange(60), rng.randrange(60))
    return "%.2f,%s,%.6f,%.6f,%.6f,%.6f,%.1f,unused\n" % (fare, when, lon, lat, to_lon, to_lat, rng.randrange(1, 6))


def main(folder, train=20_000, valid=2_000):
    rng = random.Random(20261116)
    os.makedirs(folder, exist_ok=True)
    for name, rows, shards in (("taxi-train", train, 2), ("taxi-valid", valid, 1)):
        for shard in range(shards):
            with open(os.path.join(folder, "%s-%012d.csv" % (name, shard)), "w") as out:
                out.writelines(ride(rng) for _ in range(rows // shards))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
