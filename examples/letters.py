"""The alphabet in order: `python letters.py` defers it; `queue -a letters:app worker` writes it."""

from inturn import App

app = App()  # the database: App("postgresql://…"), or INTURN_DSN, DATABASE_URL, PGHOST, …


@app.task
def write(letter: str) -> None:
    print(letter, end=" ", flush=True)


if __name__ == "__main__":
    with app.open():
        for letter in "abcdefghijklmnopqrstuvwxyz":
            write.configure(lock="alphabet").defer(letter)
