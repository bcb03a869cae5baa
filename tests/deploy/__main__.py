"""`make deploy-check`: every validator with its version over the files, then over each deliberate typo."""

from __future__ import annotations

import sys

from tests.deploy.mutations import MUTATIONS, Mutation, mutated
from tests.deploy.tree import Tree
from tests.deploy.validators import VALIDATORS, Refused, Validator, version

BY_NAME = {each.name: each for each in VALIDATORS}


def main() -> int:
    """0 when the files are right and every typo was caught."""
    verdicts = [sound(each) for each in VALIDATORS]
    if not all(verdicts):
        return 1
    print(f"\nDeliberate typos, {len(MUTATIONS)}, and who caught each:")
    caught = sum(catches(each) for each in MUTATIONS)
    print(f"\n{caught}/{len(MUTATIONS)} caught")
    return 0 if caught == len(MUTATIONS) else 1


def sound(validator: Validator) -> bool:
    try:
        validator.check(Tree())
    except Refused as refused:
        print(f"{validator.name:12} {version(validator)}\n  FAILED\n{refused}")
        return False
    print(f"{validator.name:12} ok    {version(validator)}")
    return True


def catches(mutation: Mutation) -> bool:
    with mutated(mutation) as tree:
        try:
            BY_NAME[mutation.caught].check(tree)
        except Refused:
            print(f"  {mutation.caught:12} {mutation}")
            return True
    print(f"  NOT CAUGHT by {mutation.caught}: {mutation}")
    return False


if __name__ == "__main__":
    sys.exit(main())
