"""q22: the folders in the address of what is bid for."""

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q22 = ps.Pipeline("nexmark-q22")
read(q22, "bid")


@q22.flow
def folders(bid: DataFrame) -> DataFrame:
    parts = [f"split_part(url, '/', {at}) AS dir{at - 3}" for at in (4, 5, 6)]
    return bid.selectExpr("auction", "bidder", "price", "channel", *parts)


answer(q22, folders)
