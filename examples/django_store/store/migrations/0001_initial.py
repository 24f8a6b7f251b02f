from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [("inturn", "0001_jobs_and_lanes")]
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("customer", models.TextField()),
                ("shipped", models.BooleanField(default=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        to="inturn.anyjob",
                    ),
                ),
            ],
        ),
    ]
