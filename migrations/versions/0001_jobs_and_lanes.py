"""Jobs, lanes, workers, history."""

from alembic import op

from inturn.schema.migrate import apply_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    apply_script(op.get_bind(), revision, "up")


def downgrade() -> None:
    apply_script(op.get_bind(), revision, "down")
