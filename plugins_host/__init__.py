"""Plugin processes: manifest, protocol, seams, chain and fleet. Knows actors."""

from plugins_host.faults import Fault, nearest, one_of, sentence

__all__ = ["Fault", "nearest", "one_of", "sentence"]
