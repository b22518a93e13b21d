#!/usr/bin/env python3
"""Sends a run's wandb-history.jsonl (log.wandb=offline) to Weights & Biases, by W&B's own client: pip install wandb; wandb login.

    examples/wandb_upload.py runs/first [--project NAME] [--entity NAME]

The run gets its log.name and settings; the project is train.wandb_project unless it is named here. WANDB_DISABLED=true: nothing is
sent. WANDB_MODE, WANDB_API_KEY, WANDB_DIR and the like are the client's: with WANDB_MODE=offline it writes a folder that
`wandb sync` sends."""

import argparse
import json
import os
import pathlib
import sys


def disabled():
    return os.environ.get("WANDB_DISABLED", "") not in ("", "0", "false", "False")


def rows_of(path):
    """A row a step. A run that was resumed says the steps behind its checkpoint again: the last word counts."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            step = row.pop("_step")
        except (ValueError, KeyError, AttributeError, TypeError):
            sys.exit(f"{path}:{number}: this is no row of a history\n  -> take the file as log.wandb=offline wrote it")
        rows = {known: kept for known, kept in rows.items() if known <= step}
        rows.setdefault(step, {}).update({key: value for key, value in row.items() if value is not None})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="the run's folder")
    parser.add_argument("--project", help="in place of train.wandb_project")
    parser.add_argument("--entity", help="whose project; else the client's default")
    arguments = parser.parse_args()
    history, settings = arguments.run / "wandb-history.jsonl", arguments.run / "config.json"
    for path in (history, settings):
        if not path.is_file():
            sys.exit(f"{path}: there is no such file\n  -> train with log.wandb=offline, and give the run's folder")
    config, rows = json.loads(settings.read_text()), rows_of(history)
    if disabled():
        print("WANDB_DISABLED is set: nothing is sent")
        return
    try:
        import wandb
    except ImportError:
        sys.exit("W&B's client is not installed\n  -> pip install wandb")
    run = wandb.init(project=arguments.project or config["train"]["wandb_project"], entity=arguments.entity,
                     name=config["log"]["name"], config=config)
    for step, row in rows.items():
        run.log(row, step=step)
    folder = pathlib.Path(run.dir).parent
    run.finish()
    if run.disabled:
        print("WANDB_MODE is disabled: nothing is sent")
    elif run.offline:
        print(f"{len(rows)} steps of {arguments.run} are written and not sent\n  -> wandb sync {folder}")
    else:
        print(f"{len(rows)} steps of {arguments.run} are sent")


if __name__ == "__main__":
    main()
