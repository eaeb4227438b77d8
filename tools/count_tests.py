"""Add up the JUnit files of a folder and print one line; fails where none or a failed test is."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def main(folder):
    passed = failed = skipped = 0
    for file in sorted(pathlib.Path(folder).glob("*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                skipped += 1
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
