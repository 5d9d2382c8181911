"""What each number of an audit means, and whose idea it is."""

from __future__ import annotations

from gpucf._audit_result import Audit

SOURCES = (
    "S. Sharma, J. Henderson, J. Ghosh: CERTIFAI: A Common Framework to Provide Explanations and Analyse the "
    "Fairness and "
    "Robustness of Black-box Models. AIES 2020, doi:10.1145/3375627.3375812 (burden).",
    "V. Gupta, P. Nokhiz, C. D. Roy, S. Venkatasubramanian: Equalizing Recourse across Groups. 2019, arXiv:1909.03166.",
    "B. Ustun, A. Spangher, Y. Liu: Actionable Recourse in Linear Classification. FAT* 2019, "
    "doi:10.1145/3287560.3287566 (feasibility of recourse, by group).",
    "L. Kavouras, K. Tsopelas, G. Giannopoulos, D. Sacharidis, E. Psaroudaki, N. Theologitis, D. Rontogiannis, "
    "D. Fotakis, I. Emiris: Fairness Aware Counterfactuals for Subgroups. NeurIPS 2023, arXiv:2306.14978 (equal "
    "effectiveness, choice, effectiveness within a budget, cost of effectiveness, and others).",
    "J. von Kügelgen, A.-H. Karimi, U. Bhatt, I. Valera, A. Weller, B. Schölkopf: On the Fairness of Causal "
    "Algorithmic "
    "Recourse. AAAI 2022, arXiv:2010.06529 (recourse of the same person with another value of the attribute).",
    "S. Galhotra, Y. Brun, A. Meliou: Fairness Testing: Testing Software for Discrimination. ESEC/FSE 2017, "
    "doi:10.1145/3106237.3106277 (decisions that turn with the attribute alone).",
    "E. A. Gehan: A generalized Wilcoxon test for comparing arbitrarily singly-censored samples. Biometrika 52, 1965, "
    "doi:10.1093/biomet/52.1-2.203.",
    "W. H. Kruskal, W. A. Wallis: Use of Ranks in One-Criterion Variance Analysis. JASA 47, 1952, "
    "doi:10.1080/01621459.1952.10483441.",
    "B. Efron, R. J. Tibshirani: An Introduction to the Bootstrap. Chapman & Hall 1993.",
    "B. Phipson, G. K. Smyth: Permutation P-values Should Never Be Zero. SAGMB 9, 2010, doi:10.2202/1544-6115.1585.",
    "P. H. Westfall, S. S. Young: Resampling-Based Multiple Testing. Wiley 1993 (largest statistic of each "
    "permutation).",
    "S. Holm: A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of Statistics 6, 1979.",
)


def definitions(audit: Audit) -> list[tuple[str, str]]:
    """Terms and what they mean here, with numbers of the sources."""
    s = audit.settings
    cost = s["query"].get("cost", "l1")
    scale = s["query"].get("scale", "range")
    held = ", ".join(s["held"]) or "none of the attributes"
    return [
        ("Refused", f"The model does not give the row the outcome that was asked for: {s['target']}."),
        (
            "Recourse, cost",
            f"The permitted change of least cost after which the model gives that outcome. Cost: {cost}, in units of: "
            f"{scale or 'each column itself'}. It is found by exact search and proved: no permitted change is "
            "cheaper. Each "
            f"answer was checked by {audit.about['verified_by']}. Held fixed in every answer: {held}.",
        ),
        (
            "Without recourse",
            "It is proved that no permitted change helps [3]. One minus this share is what equal effectiveness "
            "compares, "
            "with each person free to take any permitted change [4].",
        ),
        (
            "Burden",
            "The mean cost over the refused rows that have recourse [1]. Equal burden is what equalizing recourse asks "
            "for, here with the cost of recourse in the place of the distance to the border [2].",
        ),
        (
            "Median and quantiles of the cost",
            "The least cost at which at least that share of the refused rows reaches acceptance; rows without recourse "
            "count as infinitely dear. Equal cost of effectiveness [4].",
        ),
        (
            "Share within a budget; curves",
            "Share of the refused rows with recourse for at most this cost: equal effectiveness within a budget; the "
            f"distance of two curves (at {len(audit.curve_costs)} costs): the trade-off of effectiveness and cost [4].",
        ),
        (
            "Options",
            "How many answers a row has, none of which changes a subset of another's features, up to the number asked "
            "for: equal choice for recourse [4], for each person instead of for a list of common actions.",
        ),
        (
            "Gap, ratio",
            "The largest difference, and the largest ratio, between any two groups with enough refused rows. Being "
            "largest ones they are above 0 (and 1) also when there is no difference, and their bootstrap intervals "
            "too: "
            "whether chance explains a gap is what the permutation test says.",
        ),
        (
            "Bootstrap",
            f"{s['n_bootstrap']:,} resamples of all refused rows (for the share refused: of all rows); percentiles "
            "[9].",
        ),
        (
            "Permutation tests",
            f"{s['n_permutations']:,} times the rows are dealt out anew to the groups; p is the share of deals with "
            "a gap "
            "at least as large, the observed one counted [10]. It supposes that rows are independent, and tests that "
            "recourse has the same distribution in all groups. Adjusted: Holm's method over all gaps of the audit "
            "[12].",
        ),
        (
            "Cost test, subgroups",
            "Rows are scored by how many others are certainly cheaper minus certainly dearer [7]: ranks, but with rows "
            "that are open or without recourse in their place. Groups are compared by Kruskal and Wallis' statistic "
            "[8], "
            "subgroups by their standardised sums, corrected by the largest one of each deal [11]. While rows are "
            "open this "
            "tests that what is known of the costs is alike; groups may also differ in how hard their rows are to "
            "search.",
        ),
        (
            "Changing only the attribute",
            "The row is put to the model again with the attribute set to another value that occurs (for bins: the "
            "middle "
            "value seen in the bin), all else equal [6], and its recourse is computed anew with the attribute held "
            "[5]. "
            "This is no statement about causes: what else would differ had the attribute been another is not modelled.",
        ),
        (
            "Open rows",
            "Where a limit ended the search, the certified lower bound and the best answer found are used. Numbers "
            "that "
            "depend on such rows are intervals between which the truth lies, whatever it is.",
        ),
        (
            "Insufficient",
            f"Groups with fewer than {s['min_group']} refused rows are listed with their counts, and compared with "
            "nobody.",
        ),
    ]
