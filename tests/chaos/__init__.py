"""Fault tests with real processes: workers that are killed, frozen and thawed; a PostgreSQL that restarts.

`python -m tests.chaos --store postgres --restart` plays one such hour in two minutes and prints what came of it.

    worker.py    one worker process: the real store, dispatcher, worker and toolbox; it notes what it takes, and its tool what it does
    notes.py     where that is noted: a SQLite file of its own, outside whatever is being killed
    play.py      starts everything, does the damage, waits for the end
    result.py    what came of it: lost runs, effects, takeovers
"""
