"""From a document's flows to graphs, and all that is found wrong on the way.

    flows          flows in, graphs out that any number of runs share
    routes         control edges as look-ups; whether everything is reached
    feeds          data edges resolved; whether what is given can be taken
    inside         what must hold between a node and the flows that it runs
    declaring      what must hold between the inputs and outputs of one node
    http_flaws     what is wrong with the requests that a document describes
    retry_flaws    retry policies that ask for more than is done
    refused_tools  what is wrong with the tools that a document uses
    findings       where all of it is gathered

What comes of it is `heddle.engine.graph`. Modules are imported directly.
"""
