"""A soak: writers, informers of every shape, streams and faults, mixed at random; at checkpoints all must agree.

``python -m benchmarks.soak --minutes 1 --seed 7`` does it on the embedded API server, ``--server control-plane`` on a
real kube-apiserver. ``--workers 8`` follows in processes that share their caches, and kills and stops their holders.
The seed makes the same choices again; the timing of the machine varies.
"""
