"""A small service that spends its time in several ways, for the pictures of docs/languages.md."""
import json, sys, time


class Order:
    def __init__(self, number):
        self.number = number
        self.items = [(number * step) % 97 for step in range(1, 60)]

    def price(self):
        return sum(tax(item) for item in self.items)


def tax(item):
    for _ in range(40):
        item += item * 7 % 13
    return item


def by_price(order):
    return order.price()


def rank(orders):
    return sorted(orders, key=by_price)


def store(orders):
    time.sleep(0.004)
    return json.dumps([order.__dict__ for order in orders])


def serve(number):
    orders = [Order(number + n) for n in range(10)]
    return store(rank(orders))


end = time.time() + float(sys.argv[1])
number = 0
while time.time() < end:
    serve(number)
    number += 1
