"""Tables of one method, and of samples that lack views."""

from benchmarks.method_tables import METHOD_SECTIONS, gaps, method
from tests.benchmarks.recorded import record

from protocol_mvc.estimators.clusterers import ESTIMATORS


def test_a_method_stands_beside_the_paper_with_its_presets():
    rows = [
        record("ardmvc", 0.4, dataset="hdigit"),
        record("ardmvc-am", 0.5, dataset="hdigit"),
        record("ardmvc-am", 0.7, dataset="hdigit", seed=1),
        record("mflvc", 0.9, dataset="hdigit"),
    ]
    (table,) = method(rows, "ardmvc").tables
    plain, am = table.rows
    assert plain[:3] == ("hdigit", "0.1", "ardmvc")
    assert am[2] == "ardmvc-am"
    assert am[4].startswith("0.600")
    assert am[-1] == "2"
    assert float(plain[3]) > 0  # what the paper reports


def test_there_is_a_part_for_every_estimator():
    assert METHOD_SECTIONS.keys() == {f"method-{name}" for name in ESTIMATORS}
    assert METHOD_SECTIONS["method-sem"]([]).tables == []
    assert METHOD_SECTIONS["method-sem"]([record("sem")]).tables[0].rows[0][2] == "sem"
    assert METHOD_SECTIONS["method-sem"]([record("sem")]).tables[0].rows[0][3] == "n/a"  # not in the paper


def test_every_share_of_missing_views_has_its_table():
    rows = [record(study="missing 0.3"), record("dsimvc", study="missing 0.1"), record()]
    section = gaps(rows)
    assert [table.title for table in section.tables] == [
        "10% of the views missing",
        "30% of the views missing",
    ]
    assert section.tables[0].rows[0][:4] == ("digits", "0.1", "dsimvc", "0.500")
    assert gaps([record()]).tables == []
