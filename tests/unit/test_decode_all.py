"""Arguments that are read back in batches."""

from inturn.arguments import MAX_INTEGER_BITS, Unreadable, decode, decode_all

GOOD = ['{"a":1}', "{}", '{"a":[{"b":null}],"ä":"],["}']
BAD = ["[1]", "null", '{"a":' + "9" * MAX_INTEGER_BITS + "}", "[" * 100_000 + "]" * 100_000]


def test_a_batch_of_arguments_reads_as_each_of_them_does() -> None:
    assert decode_all([]) == []
    assert decode_all(GOOD) == [decode(text) for text in GOOD]


def test_arguments_that_cannot_be_read_do_not_spoil_the_others_of_their_batch() -> None:
    for bad in BAD:
        first, middle, last = decode_all([GOOD[0], bad, GOOD[2]])
        assert (first, last) == (decode(GOOD[0]), decode(GOOD[2]))
        assert isinstance(middle, Unreadable)
        assert middle.reason
