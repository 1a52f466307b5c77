"""Pictures of flows: a sketch as text for a terminal, as SVG, or as Mermaid.

layers, spacing, tracks   where boxes and lines go; they know no flows
boxes                     what is written in a box, cut and wrapped
text, outline             for a terminal: a drawing, or a list where that is too wide
svg, mermaid              for pages
widths, letters           how wide text is: on a terminal, in a picture
signs                     the characters that are drawn with
"""
