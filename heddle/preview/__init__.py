"""What a run would do, from a compiled flow and installed plugins alone: nothing starts.

seams        the places of a flow where policies are asked, in the order of a run
explanation  all of it together: who would be asked where, and what bounds a run there
policies     who is asked there, with which settings
limits       what bounds a run there
sketch       the flow as boxes and lines, ready to be drawn
"""
