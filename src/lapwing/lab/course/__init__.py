"""The course: five lectures in the order of the notes, as pages whose code runs.

A block of Python is followed by what it prints, unless that is noisy. docs/make_course.py writes docs/course.
"""

from lapwing.lab.course import slides
from lapwing.lab.course.lecture import LECTURES, Cell, Lecture, read_lecture
from lapwing.lab.course.tour import draw_tour, tour

__all__ = ["LECTURES", "Cell", "Lecture", "draw_tour", "read_lecture", "slides", "tour"]
