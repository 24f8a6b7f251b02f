from django.db import models


class Order(models.Model):
    customer = models.TextField()
    shipped = models.BooleanField(default=False)
