#!/usr/bin/env python3
"""test_counts.py -- how many tests a run had: prints "passed failed skipped".

  test_counts.py meson build/asan/meson-logs/testlog.json   cmocka's cases, over all test programs
  test_counts.py junit build/clients.xml                    pytest's tests; skips and failures go to stderr

A test program that fails without a failing case (a leak, a crash before or after its cases) is one failure more.
"""
import json
import sys
import xml.etree.ElementTree as ElementTree


def meson(path):
    passed = failed = skipped = 0
    with open(path) as log:
        for program in map(json.loads, log):
            text = program.get("stdout", "") + program.get("stderr", "")
            lines = text.splitlines()
            ran = sum(line.startswith("[ RUN      ]") for line in lines)
            ok = sum(line.startswith("[       OK ]") for line in lines)
            skip = sum(line.startswith("[  SKIPPED ]") and "test(s)" not in line for line in lines)
            bad = max(0, ran - ok - skip)
            if program["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
                bad = max(bad, 1)
            passed, failed, skipped = passed + ok, failed + bad, skipped + skip
    return passed, failed, skipped


def junit(path):
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}"
        outcomes = {child.tag: child for child in case}
        if "failure" in outcomes or "error" in outcomes:
            failed += 1
            print(f"  FAILED: {name}", file=sys.stderr)
        elif "skipped" in outcomes:
            skipped += 1
            print(f"  skipped: {name}: {outcomes['skipped'].get('message', '')}", file=sys.stderr)
        else:
            passed += 1
    return passed, failed, skipped


if __name__ == "__main__":
    print(*{"meson": meson, "junit": junit}[sys.argv[1]](sys.argv[2]))
