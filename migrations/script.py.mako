"""${message}"""

from alembic import op

from inturn.schema.migrate import apply_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    apply_script(op.get_bind(), revision, "up")


def downgrade() -> None:
    apply_script(op.get_bind(), revision, "down")
