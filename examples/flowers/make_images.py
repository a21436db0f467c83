"""make_images.py FOLDER: small pictures of flowers, a folder for each kind, as PNG files. Needs only Python's own library."""
import math
import pathlib
import random
import struct
import sys
import zlib

# petals: how many, their colour, and the heart's colour
KINDS = {"daisy": (12, (235, 235, 240), (230, 190, 40)), "dandelion": (40, (240, 210, 30), (220, 170, 20)), "roses": (5, (190, 20, 50), (120, 10, 30)),
         "sunflowers": (18, (245, 180, 20), (90, 50, 20)), "tulips": (3, (200, 70, 180), (240, 220, 120))}
EACH = 48


def png(rows):
    """8 bits, red green blue."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b"")


def flower(rng, petals, colour, heart):
    width, height = rng.randrange(64, 97), rng.randrange(64, 97)
    x0, y0, size, turn = width * rng.uniform(.4, .6), height * rng.uniform(.4, .6), rng.uniform(20, 30), rng.uniform(0, 6)
    light = rng.uniform(.7, 1.1)
    rows = []
    for y in range(height):
        row = []
        for x in range(width):
            far, angle = math.hypot(x - x0, y - y0), math.atan2(y - y0, x - x0) + turn
            petal = far < size * (.65 + .35 * math.cos(petals * angle))
            base = heart if far < size * .3 else colour if petal else (50, 110, 50)
            noise = rng.gauss(0, 12)
            row.append(tuple(min(255, max(0, int(c * light + noise))) for c in base))
        rows.append(row)
    return rows


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
for kind, look in KINDS.items():
    folder = pathlib.Path(sys.argv[1], kind)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(EACH):
        (folder / f"{i:03d}.png").write_bytes(png(flower(random.Random(f"{kind} {i}"), *look)))
