"""What is expected where classes come in another order: that their names count, not their places."""

from __future__ import annotations

from cells import error, same
from ordering import ORDER_ENTRIES
from spoiling import ORDERS
from table import expect

expect([*ORDER_ENTRIES], "class order", dict.fromkeys(ORDERS, same()))
another = error(ValueError, "the seen expert _Ordered gives its classes in another order", "sort them")
expect("Cosmo(seen)", "class order", dict.fromkeys(ORDERS, another))
