# embed.py FILE NAME OUTPUT -- a file's bytes as a C array, so that the binary needs nothing beside it.
import sys

source, name, output = sys.argv[1:]
with open(source, "rb") as f:
    data = f.read()
rows = [data[i : i + 16] for i in range(0, len(data), 16)]
with open(output, "w") as f:
    f.write("static const unsigned char %s[] = {\n" % name)
    for row in rows:
        f.write("    " + ", ".join("0x%02x" % b for b in row) + ",\n")
    f.write("};\n")
