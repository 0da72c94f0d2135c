"""Books in a store: a Store and an Indexer hold any objects, here books by their ISBN, found by author and by shelf.

Run it: ``python examples/books_in_a_store.py``. It needs no cluster.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kinformer import DeletedFinalStateUnknown, Indexer, Store
from kinformer.exceptions import IndexNotFoundError, KeyFuncError


@dataclass(frozen=True)
class Book:
    isbn: str
    title: str
    authors: list[str] = field(default_factory=list)
    shelf: str | None = None


def by_isbn(book: Book) -> str:
    return book.isbn


def by_author(book: Book) -> list[str]:
    return book.authors  # any number of values, also none


def by_shelf(book: Book) -> list[str]:
    if book.shelf is None:
        raise ValueError("this book is on no shelf")
    return [book.shelf]


OMENS = Book("978-0060853983", "Good Omens", ["Terry Pratchett", "Neil Gaiman"], shelf="A")
MORT = Book("978-0062225719", "Mort", ["Terry Pratchett"], shelf="A")
EMMA = Book("978-0141439587", "Emma", ["Jane Austen"])


def titles(books: list[Book]) -> str:
    return ", ".join(sorted(book.title for book in books)) or "nothing"


def main() -> None:
    # Errors of an index function are logged with a traceback; here one line will do.
    logging.getLogger("kinformer.indexer").addHandler(logging.NullHandler())
    logging.getLogger("kinformer.indexer").propagate = False

    store = Store(by_isbn)
    store.add(OMENS)
    store.add(MORT)
    print("in the store:", titles(store.list()))
    print("by its key:", store.get_by_key(MORT.isbn).title)
    print("not there:", store.get_by_key("978-0"))

    # A key function that fails is an error of the write, and nothing has changed.
    try:
        store.add("a newspaper")
    except KeyFuncError as error:
        print("no key:", error)

    # The whole content in one step; readers see all the old books or all the new ones.
    store.replace([MORT, EMMA], "2")
    print("after replace:", titles(store.list()))

    # After a missed delete only the object's absence and its last known state are known.
    store.delete(DeletedFinalStateUnknown(MORT.isbn, MORT))
    print("after the delete:", titles(store.list()))

    indexer = Indexer(by_isbn, {"author": by_author, "shelf": by_shelf})
    for book in (OMENS, MORT, EMMA):
        indexer.add(book)
    print("by Terry Pratchett:", titles(indexer.by_index("author", "Terry Pratchett")))
    print("by the authors of Good Omens:", titles(indexer.index("author", OMENS)))
    print("authors:", ", ".join(sorted(indexer.index_values("author"))))

    # Emma is on no shelf: it is stored, left out of that index, and counted.
    print("on shelf A:", titles(indexer.by_index("shelf", "A")))
    print("stored all the same:", indexer.get_by_key(EMMA.isbn).title, "- index errors:", indexer.index_errors)

    try:
        indexer.by_index("publisher", "Penguin")
    except IndexNotFoundError as error:
        print("no index:", error)

    # An index that comes later has the books that are there.
    indexer.add_indexers({"first letter": lambda book: [book.title[0]]})
    print("with an M:", titles(indexer.by_index("first letter", "M")))


if __name__ == "__main__":
    main()
