# The only list of the public names. Type checkers read it, and __init__.py looks up here which
# module to import when a name is first used.

from inturn.django.connector import connector_params as connector_params
from inturn.django.current import DjangoApp as DjangoApp
from inturn.django.current import app as app
