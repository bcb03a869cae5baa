"""A deterministic simulation: one seed is one world, in which everything fails that can.

What is real: the core, the runner, the worker, the dispatcher, the toolbox with its policies, the rules of the store. What is simulated,
and fails in every way: the clock, the network, the disk's answers, the model, the tools' far ends, the people, the processes.

::

    world.py      a seed becomes a world; the world is played to its end
    process.py    a worker process: crashes at any await, is frozen and thawed, has a clock of its own
    network.py    the link of a process to the store and the queue: slow, cut, losing requests and answers, telling twice
    cast.py       the model and the tools; effects are counted outside the process that asked for them
    people.py     clients, approvers, callbacks, cancels: they arrive at odd times and twice
    chaos.py      what goes wrong in this world (each world has some kinds of faults, not all) and how often it did
    laws.py       what must hold at the end
    mutants.py    deliberate faults of ours, each of which must be found

`python -m tests.sim --seed N` plays one world again, to the letter.
"""
