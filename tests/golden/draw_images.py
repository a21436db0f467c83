"""draw_images.py -- image files of every kind that src/images must read, drawn here, without TensorFlow or an image library.

TensorFlow itself writes plain JPEGs and PNGs (tests/golden/judge_images.py). What it cannot write is made here byte by byte:
JPEGs with CMYK, odd sampling, restart marks or EXIF; PNGs with palettes, few bits, transparency and interlacing. A random
stream of coefficients, or of filtered rows, is a valid picture, so none is computed.
"""
import random
import struct
import zlib


# ---- JPEG: baseline, one scan ----

def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


class Bits:
    """The entropy-coded part: bits, with a 0 after each 0xFF."""

    def __init__(self):
        self.out, self.held, self.count = bytearray(), 0, 0

    def add(self, value, length):
        self.held, self.count = self.held << length | value, self.count + length
        while self.count >= 8:
            self.count -= 8
            byte = self.held >> self.count & 255
            self.out += bytes([byte, 0]) if byte == 255 else bytes([byte])
        self.held &= (1 << self.count) - 1

    def end(self):
        if self.count:
            self.add((1 << 8 - self.count) - 1, 8 - self.count)


DC = list(range(12))  # every category has a code of 4 bits
AC = [0x00, 0xF0] + [run << 4 | size for run in range(16) for size in range(1, 11)]  # every symbol has one of 8 bits


def number(bits, value):
    size = abs(value).bit_length()
    bits.add(value if value > 0 else value + (1 << size) - 1, size)


def block(bits, r, last):
    """64 random coefficients, few of them not zero. `last` is the DC before; returns this one."""
    dc = max(-120, min(120, last + r.randrange(-40, 41)))
    bits.add(DC.index(abs(dc - last).bit_length()), 4)
    number(bits, dc - last)
    run = 0
    for _ in range(63):
        value = r.randrange(-9, 10) if r.random() < 0.12 else 0
        if value == 0:
            run += 1
            continue
        while run > 15:
            bits.add(AC.index(0xF0), 8)
            run -= 16
        bits.add(AC.index(run << 4 | abs(value).bit_length()), 8)
        number(bits, value)
        run = 0
    if run:
        bits.add(AC.index(0x00), 8)
    return dc


def scan(r, width, height, sampling, restart):
    widest, tallest = (max(s[i] for s in sampling) for i in (0, 1))
    across, down = -(-width // (8 * widest)), -(-height // (8 * tallest))
    if len(sampling) == 1:  # one component alone: its blocks are not interleaved
        across, down, sampling = -(-width // 8), -(-height // 8), [(1, 1)]
    bits, last = Bits(), [0] * len(sampling)
    for unit in range(across * down):
        if restart and unit and unit % restart == 0:
            bits.end()
            bits.out += bytes([0xFF, 0xD0 + (unit // restart - 1) % 8])
            last = [0] * len(sampling)
        for i, (h, v) in enumerate(sampling):
            for _ in range(h * v):
                last[i] = block(bits, r, last[i])
    bits.end()
    return bytes(bits.out)


def jpeg(seed, width, height, sampling, adobe=None, restart=0, extra=b""):
    """sampling: (across, down) of each component. adobe: its transform number, or None for no such mark."""
    r = random.Random(seed)
    parts = [b"\xff\xd8", extra]
    if adobe is not None:
        parts.append(segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, adobe)))
    parts.append(segment(0xDB, b"\0" + bytes(min(255, 4 + 2 * i) for i in range(64))))
    frame = b"".join(bytes([i + 1, h << 4 | v, 0]) for i, (h, v) in enumerate(sampling))
    parts.append(segment(0xC0, struct.pack(">BHHB", 8, height, width, len(sampling)) + frame))
    parts.append(segment(0xC4, b"\0" + bytes([0, 0, 0, len(DC)] + [0] * 12) + bytes(DC)))
    parts.append(segment(0xC4, b"\x10" + bytes([0] * 7 + [len(AC)] + [0] * 8) + bytes(AC)))
    if restart:
        parts.append(segment(0xDD, struct.pack(">H", restart)))
    parts.append(segment(0xDA, bytes([len(sampling)]) + b"".join(bytes([i + 1, 0]) for i in range(len(sampling))) + b"\0\x3f\0"))
    parts += [scan(r, width, height, sampling, restart), b"\xff\xd9"]
    return b"".join(parts)


# Orientation 6: "turn me by 90 degrees", which TensorFlow does not do.
EXIF = segment(0xE1, b"Exif\0\0" + struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x0112, 3, 1, 6, 0, 0))


def jpegs(seed):
    """name -> bytes"""
    one, full = (1, 1), [(1, 1)] * 3
    return {
        "grey.jpg": jpeg(seed + 1, 37, 29, [one]),
        "full.jpg": jpeg(seed + 2, 33, 41, full),
        "half_across.jpg": jpeg(seed + 3, 45, 31, [(2, 1), one, one]),
        "half_down.jpg": jpeg(seed + 4, 45, 31, [(1, 2), one, one]),
        "half_both.jpg": jpeg(seed + 5, 39, 43, [(2, 2), one, one]),
        "quarter.jpg": jpeg(seed + 6, 70, 20, [(4, 1), one, one]),
        "mixed.jpg": jpeg(seed + 7, 35, 27, [(2, 2), (1, 2), (2, 1)]),
        "narrow.jpg": jpeg(seed + 8, 1, 50, [(2, 2), one, one]),
        "restart.jpg": jpeg(seed + 9, 64, 40, [(2, 1), one, one], restart=3),
        "exif.jpg": jpeg(seed + 10, 40, 24, full, extra=EXIF),
        "rgb.jpg": jpeg(seed + 11, 24, 40, full, adobe=0),
        "cmyk.jpg": jpeg(seed + 12, 33, 25, [one] * 4),
        "cmyk_adobe.jpg": jpeg(seed + 13, 33, 25, [one] * 4, adobe=0),
        "no_end.jpg": jpeg(seed + 20, 40, 30, [(2, 2), one, one])[:-1],  # half of the end mark is gone, no pixel is
        "ycck.jpg": jpeg(seed + 14, 41, 33, [(2, 2), one, one, (2, 2)], adobe=2),
    }


# ---- PNG ----

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows(r, width, height, bits):
    """Random filters over random bytes: what they make of each other does not matter."""
    if width == 0 or height == 0:
        return b""
    return b"".join(bytes([r.randrange(5)]) + r.randbytes(-(-width * bits // 8)) for _ in range(height))


def png(seed, width, height, colour, depth, interlaced=False, clear=b"", extra=b""):
    """colour: PNG's type number. clear: the content of tRNS."""
    r = random.Random(seed)
    bits = depth * CHANNELS[colour]
    if interlaced:
        data = b"".join(rows(r, -(-(width - x) // dx) if width > x else 0, -(-(height - y) // dy) if height > y else 0, bits)
                        for x, y, dx, dy in PASSES)
    else:
        data = rows(r, width, height, bits)
    return b"".join([b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)), extra,
                     chunk(b"PLTE", r.randbytes(3 << depth)) if colour == 3 else b"", chunk(b"tRNS", clear) if clear else b"",
                     chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")])


def pngs(seed):
    made = {f"type{colour}_{depth}{'i' if interlaced else ''}.png": png(seed + colour * 20 + depth + interlaced, 19, 23, colour, depth, interlaced)
            for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16)))
            for depth in depths for interlaced in (False, True)}
    made["clear_grey.png"] = png(seed + 1, 21, 17, 0, 8, clear=b"\0\x40")
    made["clear_rgb.png"] = png(seed + 2, 21, 17, 2, 8, clear=b"\0\1\0\2\0\3")
    made["clear_palette.png"] = png(seed + 3, 21, 17, 3, 4, clear=bytes(range(0, 160, 10)))
    made["gamma.png"] = png(seed + 4, 21, 17, 2, 8, extra=chunk(b"gAMA", struct.pack(">I", 45455)))
    made["dot.png"] = png(seed + 5, 1, 1, 2, 8, interlaced=True)
    return made


def broken():
    """Files that are no whole image: each cut in several places, bits flipped where a checksum sees it, and other kinds."""
    whole = {"jpg": jpeg(20, 40, 30, [(2, 2), (1, 1), (1, 1)]), "png": png(21, 40, 30, 2, 8)}
    made = {f"cut_{n}.{kind}": data[:n] for kind, data in whole.items()
            for n in (3 if kind == "jpg" else 8, 20, 60, len(data) // 2, len(data) - 5, len(data) - 2)}
    made["checksum.png"] = whole["png"][:-20] + bytes([whole["png"][-20] ^ 1]) + whole["png"][-19:]
    made["no_size.png"] = png(22, 0, 5, 2, 8)
    made["depth12.jpg"] = whole["jpg"].replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c")
    made["lossless.jpg"] = whole["jpg"].replace(b"\xff\xc0\x00\x11", b"\xff\xc3\x00\x11")
    made["no_frame.jpg"] = whole["jpg"].replace(b"\xff\xc0\x00\x11", b"\xff\xfe\x00\x11")
    made["empty"] = b""
    made["text"] = b"this is no image"
    return made


def every(seed=0):
    """One of each. The seed changes what is in them, not what they are called."""
    return {**jpegs(seed), **pngs(seed)}
