"""Prints the scalars of a folder of event files as JSON: {tag: [[step, value], ...]}.

Uses the reader of the PyPI package tensorboard (tensorboard_test.cpp).
"""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
scalars = {
    tag: [[event.step, event.value] for event in events.Scalars(tag)]
    for tag in events.Tags()["scalars"]
}
print(json.dumps(scalars))
