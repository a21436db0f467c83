"""test_objects_history.py -- the checker of J6 itself: each kind of damage is found, and an innocent history is not blamed."""
import math

import pytest
from objects_history import Call, History


class Story:
    """Calls on the name "x", each a moment after the one before."""

    def __init__(self):
        self.history, self.now = History("story"), 0.0

    def call(self, kind, generation=None, outcome="acked", match=None):
        value = self.history.value(100) if kind == "write" else None
        call = self.history.begin(Call(kind, "x", value, match))
        call.start, self.now = self.now, self.now + 2
        call.end, call.outcome = (call.start + 1 if outcome != "unknown" else math.inf), outcome
        if kind == "write" and generation:
            self.history.bind("x", generation, call)
        elif kind == "read":
            call.generation = generation
        return call

    def write(self, *rest, **more):
        return self.call("write", *rest, **more)

    def read(self, generation):
        return self.call("read", generation)

    def delete(self, **more):
        return self.call("delete", **more)

    def restart(self):
        self.history.restarts.append(self.now)
        self.now += 2

    def blame(self, words):
        with pytest.raises(AssertionError, match=words):
            self.history.check()


@pytest.fixture
def story():
    return Story()


def test_innocent(story):
    story.write(10)
    story.read(10)
    story.write(20, match=10)
    story.delete(match=20)
    story.read(0)
    story.write(30, match=0)
    story.write(outcome="unknown")
    story.delete(outcome="unknown")
    story.read(0)
    story.history.check()


def test_acknowledged_and_gone(story):
    story.write(10)
    story.read(0)
    story.blame("lost")


def test_a_refused_delete_takes_nothing(story):
    story.write(10)
    story.delete(outcome="refused")
    story.read(0)
    story.blame("lost")


def test_a_delete_cut_off_takes_nothing_after_the_next_start(story):
    story.delete(outcome="unknown")
    story.restart()
    story.write(10)
    story.read(0)
    story.blame("lost")


def test_older_again(story):
    story.write(10)
    story.write(20)
    story.read(10)
    story.blame("an older one is back")


def test_deleted_and_back(story):
    story.write(10)
    story.delete()
    story.read(10)
    story.blame("deleted and back")


def test_one_generation_replaced_twice(story):
    story.write(10)
    story.write(20, match=10)
    story.write(30, match=10)
    story.blame("ifGenerationMatch=10")


def test_made_anew_over_what_was_there(story):
    story.write(10)
    story.write(20, match=0)
    story.blame("lost")


def test_refused_and_there(story):
    story.write(10, outcome="refused")
    story.blame("was refused")


def test_generations_go_back(story):
    story.write(20)
    story.write(10)
    story.blame("generations go back")


def test_torn(story):
    body = story.write(10).value.bytes()
    story.history.saw("x", 10, body[:50] + body[:50])
    story.blame("torn")


def test_torn_range(story):
    body = story.write(10).value.bytes()
    story.history.saw_part("x", 10, 20, body[20:60])
    story.history.check()
    story.history.saw_part("x", 10, 21, body[20:60])
    story.blame("torn range")


def test_two_values_of_one_generation(story):
    story.write(10)
    story.history.saw("x", 10, story.write(outcome="unknown").value.bytes())
    story.blame("two values")
