import LiveActivity

/// The tables of outcomes, reasons and faults, and the lists of traps and of rules that the schemas cannot express.
extension RecordPage {
    static let outcomesSection =
        "## Outcomes\n\n" + makeOutcomeTable(Outcome.allCases.map { OutcomeReference($0) })
        + "\n### Outcomes of a command to an audience\n\n"
        + "Results of ranges and of the whole command have these outcomes.\n\n"
        + makeOutcomeTable(FanoutOutcome.allCases.map { OutcomeReference($0) })
        + "\n### Outcomes of members and broadcasts\n\n"
        + "`members` and `broadcasts` count these outcomes, and the result of a broadcast has one of them.\n\n"
        + makeOutcomeTable(MemberOutcome.allCases.map { OutcomeReference($0) })

    private static func makeOutcomeTable(_ outcomes: [OutcomeReference]) -> String {
        makeMarkdownTable(
            ["outcome", "meaning", "what to do"],
            outcomes.map { ["`\($0.name)`", $0.meaning, $0.recommendedAction] }
        )
    }

    static let reasonsSection =
        """
        ## Reasons

        `reason` of a result is [Apple's \
        reason](https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns) \
        or one of these. For `invalid`, it is a code of the next table. Any other text is an error of Redis. [Real \
        Apple](apple.md) says what to do about Apple's reasons.


        """
        + makeMarkdownTable(
            ["reason", "outcome", "meaning", "what to do"],
            ReasonReference.all.map { ["`\($0.name)`", $0.outcome, $0.meaning, $0.recommendedAction] }
        )

    static let faultsSection =
        "## Codes of invalid records\n\n"
        + makeMarkdownTable(["code", "meaning"], FaultReference.all.map { ["`\($0.name)`", $0.meaning] })

    static let silentFailuresSection = """
        ## Traps

        APNs responds with 200 and the result is `accepted`, but the phone shows nothing new, if

        - the app cannot decode `content-state` or `attributes`: a missing key, a wrong type, another spelling;
        - a `Date` in them counts from 1970. `JSONDecoder` with default strategies reads seconds since 2001: subtract \
        978,307,200. A `ClosedRange<Date>` is an array of two such numbers;
        - the activity is no longer on the phone, and APNs does not know this yet;
        - a start was sent after its `stale-date`, for example after an outage. By one report, iOS then never presents \
        the activity. Causeway sends the date as it is: give such a start an `expiration` of the same time;
        - the phone's budget for pushes of priority 10 is used up.

        """

    static let schemaDifferencesSection =
        """
        ## What the schemas cannot say

        Every record that the worker accepts is valid by its schema. But a record that is valid by its schema may be \
        invalid for the worker, in these cases. `causeway check` finds all of them.


        """ + RuleBeyondSchema.allCases.map { "- \($0.text)\n" }.joined()
}
