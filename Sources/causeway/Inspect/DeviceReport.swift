import LiveActivity

import enum CausewayRecords.JSONValue

/// The known facts about one device: which activities can be started on it, and how many starts its budget allows now.
struct DeviceReport {
    struct AttributesTypeReport {
        var attributesType: String
        /// The push-to-start token; nil if none was registered, or if the last one was unregistered or retired.
        var token: ActivityReport.Token?
        /// When the token was registered; nil without a token.
        var registeredAtMilliseconds: Int64?
        /// Starts that wait for a token, oldest first.
        var heldStarts: [HeldCommand]
    }

    var app: String
    var device: String
    var nowMilliseconds: Int64
    var policyName: String
    var startBudget: ActivityReport.Budget
    /// The tokens and held starts of each attributes type, in the order of the types' names.
    var attributesTypeReports: [AttributesTypeReport]

    func lines() -> [String] {
        var lines = LabelledLines()
        lines.add("device", "\(device) of \(app)")
        lines.add("starts", "\(startBudget.text(of: "starts", nowMilliseconds: nowMilliseconds)); policy \(policyName)")
        lines.add("")
        lines.addTable(
            header: ["attributes type", "push-to-start token", "environment", "registered", "waits"],
            rows: attributesTypeReports.map { typeReport in
                [
                    typeReport.attributesType, typeReport.token.map { "sha256 \($0.fingerprint)" } ?? "none",
                    typeReport.token.map { "\($0.environment.name)" } ?? "-",
                    typeReport.registeredAtMilliseconds.map { TimeText.relative($0, to: nowMilliseconds) } ?? "-",
                    heldStartsText(typeReport.heldStarts),
                ]
            },
            rightAligned: []
        )
        return lines.lines
    }

    private func heldStartsText(_ heldStarts: [HeldCommand]) -> String {
        guard let oldest = heldStarts.first else { return "nothing" }
        let ageText = TimeText.relative(oldest.timestampMilliseconds, to: nowMilliseconds)
        return heldStarts.count == 1 ? "start of \(ageText)" : "\(heldStarts.count) starts, the oldest of \(ageText)"
    }

    /// The report as JSON, for programs. Times are UNIX milliseconds.
    var json: JSONValue {
        .objectOmittingNil([
            "app": .string(app), "device": .string(device), "now": .integer(nowMilliseconds),
            "policy": .string(policyName), "starts": startBudget.json,
            "tokens": .array(
                attributesTypeReports.map { typeReport in
                    .objectOmittingNil([
                        "attributesType": .string(typeReport.attributesType),
                        "sha256": typeReport.token.map { .string($0.fingerprint) } ?? .null,
                        "environment": typeReport.token.map { .string("\($0.environment.name)") },
                        "registeredAt": typeReport.registeredAtMilliseconds.map(JSONValue.integer),
                        "held": .array(typeReport.heldStarts.map(\.commandJSON)),
                    ])
                }
            ),
        ])
    }
}
