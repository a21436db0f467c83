"""src/images decodes, resizes and splits as real TensorFlow 2.15 and Keras do, to the bit (build/images_tool)."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = TOP / "build" / "images_tool"
sys.path.insert(0, str(TOP / "tests" / "golden"))
import draw_images  # noqa: E402


def tool(*arguments, stdin=""):
    """What it printed, or None if it refused; a refusal always says why."""
    done = subprocess.run([TOOL, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), f"{arguments}: {done.returncode} {done.stderr}"
    assert done.returncode == 0 or ": " in done.stderr
    return done.stdout if done.returncode == 0 else None


@pytest.fixture(scope="module")
def judge(tf_python):
    """TensorFlow in a process of its own: judge("call", argument=...) -> its answer."""
    process = subprocess.Popen([tf_python, TOP / "tests" / "golden" / "judge_images.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)  # libjpeg prints there, without end

    def call(name, **arguments):
        process.stdin.write(json.dumps({"call": name, **arguments}, default=str) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or '{"error": "TensorFlow ended"}')
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    yield call
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def compare(judge, path, channels):
    """Both refuse, or both give the same pixels. True if they decoded."""
    ours, theirs = path.with_suffix(".ours"), path.with_suffix(".theirs")
    shape, printed = judge("decode", path=path, channels=channels, out=theirs), tool("decode", channels, path, ours)
    verdict = [line and line.split()[:3] for line in (printed, shape and " ".join(map(str, shape)))]
    assert verdict[0] == verdict[1], f"{path.name} with {channels} channels: we say {verdict[0]}, TensorFlow {verdict[1]}"
    if shape:
        assert ours.read_bytes() == theirs.read_bytes(), f"{path.name} with {channels} channels"
    return shape is not None


def test_every_kind_decodes_as_tensorflow_decodes_it(judge, tmp_path, rng):
    seed = rng.randrange(1000, 1 << 30)
    judge("write_encoded", folder=tmp_path, seed=seed)
    for name, data in draw_images.every(seed).items():
        (tmp_path / name).write_bytes(data)
    files = sorted(tmp_path.iterdir())
    decoded = sum(compare(judge, path, channels) for path in files for channels in (1, 3))
    assert len(files) > 50 and decoded >= 2 * len(files) - 5  # CMYK is not read as grey, and half an end mark is luck


def test_damaged_files_get_the_same_verdict(judge, tmp_path, rng, long):
    judge("write_encoded", folder=tmp_path, seed=1)
    whole = {**draw_images.every(), **{p.name: p.read_bytes() for p in tmp_path.iterdir()}}
    names = sorted(whole)
    decoded = 0
    for i in range(3000 if long else 150):
        name = rng.choice(names)
        data = bytearray(whole[name])
        if rng.random() < 0.3:
            data = data[:rng.randrange(9, len(data))]
        for _ in range(rng.randrange(3)):
            data[rng.randrange(8, len(data))] ^= 1 << rng.randrange(8)
        path = tmp_path / f"{i}_{name}"
        path.write_bytes(data)
        decoded += compare(judge, path, rng.choice([1, 3]))
    assert decoded > 10


def test_resized_values_are_tensorflows(judge, tmp_path, rng):
    judge("write_encoded", folder=tmp_path, seed=rng.randrange(1 << 30))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name, channels in (("tf_plain.jpg", 3), ("tf_grey.png", 1), ("tf_alpha.png", 3)):
        for method in ("bilinear", "nearest"):
            for height, width in [(180, 180), (1, 1)] + [(rng.randrange(1, 300), rng.randrange(1, 600)) for _ in range(6)]:
                tool("resize", channels, tmp_path / name, method, height, width, ours)
                judge("resize", path=tmp_path / name, channels=channels, method=method, height=height, width=width, out=theirs)
                assert ours.read_bytes() == theirs.read_bytes(), f"{name} {method} to {height} x {width}"


def test_a_folder_is_loaded_as_keras_loads_it(judge, tmp_path):
    root, images = tmp_path / "flowers", tmp_path / "drawn"
    images.mkdir()
    judge("write_encoded", folder=images, seed=3)
    for i, path in enumerate(sorted(images.iterdir())):
        folder = root / ["tulips", "Roses", "daisy/wild"][i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)
    told = judge("dataset", root=root, height=20, width=30, out=tmp_path / "theirs")
    ours = b""
    for path in told["paths"]:
        tool("resize", 3, path, "bilinear", 20, 30, tmp_path / "one")
        ours += (tmp_path / "one").read_bytes()
    assert len(told["paths"]) == 10 and ours == (tmp_path / "theirs").read_bytes()
    assert told["classes"] == ["Roses", "daisy", "tulips"]


@pytest.fixture
def folder(tmp_path, rng):
    """Empty files under names that sort in surprising ways: a split does not look inside."""
    root = tmp_path / "data"
    for name in ("roses", "Roses", "a b", "tulips", "tulips-red", "ärger", ".hidden", "no_image"):
        for i in range(rng.randrange(5, 60)):
            below = rng.choice(["", "", "", "deep/", "deep-er/", "deep/est/"])
            ending = rng.choice([".jpg", ".jpg", ".JPEG", ".png", ".Png", ".gif", ".bmp", ".txt", ""]) if name != "no_image" else ".txt"
            path = root / name / f"{below}{rng.choice(['x', 'X', 'é', '_', '10', '9'])}{i}{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (root / "LICENSE.jpg").touch()
    return root


def test_the_split_is_keras_choice(judge, folder, rng):
    paths = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    for seed, fraction in ((123, 0.2), (0, 0.5), (2**32 - 1, 0.07), (rng.randrange(1 << 32), rng.uniform(0.1, 0.9))):
        rng.shuffle(paths)  # the order in which they were found must not matter
        printed = tool("split", folder, seed, fraction, stdin="".join(f"{p}\n" for p in paths)).splitlines()
        ours = [[line.split(" /", 1) for line in printed if line.startswith(part)] for part in ("training", "validation")]
        theirs = judge("split", root=folder, seed=seed, fraction=fraction)
        assert [["/" + path for _, path in part] for part in ours] == theirs
        for head, path in ours[0] + ours[1]:
            assert os.path.relpath("/" + path, folder).split("/")[0] == head.split(" ", 1)[1]


def test_tensorflow_reads_our_pngs(judge, tmp_path):
    judge("write_encoded", folder=tmp_path, seed=5)
    for name, channels in (("tf_plain.jpg", 3), ("tf_grey.jpg", 1), ("tf_colour.png", 3)):
        tool("png", channels, tmp_path / name, tmp_path / "copy.png")
        tool("decode", channels, tmp_path / name, tmp_path / "ours")
        shape = judge("decode", path=tmp_path / "copy.png", channels=channels, out=tmp_path / "theirs")
        assert shape[2] == channels and (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_a_refusal_says_what_is_wrong(tmp_path):
    for data, words in ((b"", "DATA_LOSS: the file is empty"), (b"GIF89a", "INVALID_ARGUMENT: this is a GIF: only JPEG and PNG"),
                        (draw_images.jpeg(1, 30, 20, [(1, 1)])[:-30], "DATA_LOSS: the JPEG is cut short"),
                        (draw_images.png(1, 30, 20, 2, 8)[:-30], "DATA_LOSS: the PNG is cut short"),
                        (draw_images.png(1, 30, 20, 2, 8)[:-1] + b"x", "DATA_LOSS: the PNG is damaged"),
                        (draw_images.png(1, 70000, 1, 0, 1), "RESOURCE_EXHAUSTED: an image of 70000 x 1 pixels")):
        (tmp_path / "x").write_bytes(data)
        done = subprocess.run([TOOL, "decode", "3", tmp_path / "x", tmp_path / "out"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.startswith(words)
        assert not (tmp_path / "out").exists()
