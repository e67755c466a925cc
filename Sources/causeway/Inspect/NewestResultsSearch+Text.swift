import enum CausewayRecords.JSONValue

extension NewestResultsSearch {
    /// Returns a table of the results, newest first. Without results, says how far the search went.
    func lines(nowMilliseconds: Int64) -> [String] {
        var lines = LabelledLines()
        guard !records.isEmpty else {
            lines.add("results", isComplete ? "none" : "none among the last \(searchedOffsetCount) of all activities")
            return lines.lines
        }
        lines.add("")
        lines.addTable(
            header: ["last results", "", "outcome", "priority", "timestamp", "command"],
            rows: records.map { Self.tableRow(of: $0, nowMilliseconds: nowMilliseconds) },
            rightAligned: []
        )
        return lines.lines
    }

    private static func tableRow(of record: JSONValue, nowMilliseconds: Int64) -> [String] {
        let times = record["times"]
        let moment = ["responded", "sent", "admitted", "received", "record"].lazy
            .compactMap { times?[$0]?.integerValue }
            .first
        let supersededText = record["superseded"]?.integerValue.map { "\($0) superseded" }
        let droppedFieldsText: String? =
            if case .array(let names)? = record["dropped"] {
                "without " + names.compactMap { $0.text }.joined(separator: ", ")
            } else {
                nil
            }
        let causeText = record["cause"]?.text.map { "cause: \($0)" }
        let remarks = [record["reason"]?.text, causeText, supersededText, droppedFieldsText].compactMap(\.self)
            .joined(separator: ", ")
        let priorityText = record["priority"]?.integerValue
            .map { record["demoted"] == .boolean(true) ? "10, sent at \($0)" : "\($0)" }
        return [
            moment.map { TimeText.timeOfDay($0, nowMilliseconds: nowMilliseconds) } ?? "-",
            moment.map { TimeText.relative($0, to: nowMilliseconds) } ?? "",
            (record["outcome"]?.text ?? "?") + (remarks.isEmpty ? "" : " (\(remarks))"),
            priorityText ?? "-",
            record["timestamp"]?.integerValue.map { "\($0)" } ?? "-",
            record["command"]?.text ?? "-",
        ]
    }

    var json: JSONValue {
        .objectOmittingNil([
            "records": .array(records), "read": .integer(searchedOffsetCount), "isComplete": .boolean(isComplete),
        ])
    }
}
