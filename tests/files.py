"""files.py -- folders that a server is at work in: what was listed may be gone when it is looked at."""


def sizes(folder, pattern="*"):
    """Bytes of each file that is still there."""
    found = []
    for path in folder.glob(pattern):
        try:
            found.append(path.stat().st_size)
        except FileNotFoundError:
            pass
    return found
