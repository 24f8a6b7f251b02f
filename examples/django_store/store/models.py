from django.db import models


class Order(models.Model):
    customer = models.TextField()
    shipped = models.BooleanField(default=False)
    # The job that ships it, live or finished. The history does not keep a job for ever.
    job = models.ForeignKey(
        "inturn.AnyJob", null=True, on_delete=models.DO_NOTHING, db_constraint=False
    )
