import Numbers

/// A box of text, drawn with Unicode lines. Every row has the same width.
struct TextReport {
    enum Style {
        case plain, heading, faint, good, bad

        /// The style's code in ECMA-48's control sequence "select graphic rendition".
        fileprivate var sgrCode: String? {
            switch self {
            case .plain: nil
            case .heading: "1"
            case .faint: "2"
            case .good: "1;32"
            case .bad: "1;31"
            }
        }
    }

    /// A label on the left and its value on the right.
    struct LabelledValue {
        var label = ""
        var value = ""
        var style = Style.plain

        static let empty = LabelledValue()
    }

    static let width = 80

    private let isColoured: Bool
    private(set) var lines: [String] = []
    /// The columns in which the section that was added last has a vertical line. In these columns, the line below the
    /// section has `┴` or `┼`.
    private var dividerColumnsAbove: [Int] = []

    init(isColoured: Bool) {
        self.isColoured = isColoured
    }

    /// Adds a section with rows across the whole report.
    mutating func addSection(_ rows: [LabelledValue]) {
        addSeparator(below: [])
        for row in rows { lines.append("│ " + text(row, width: Self.width - 4) + " │") }
    }

    /// Adds a section with two columns of rows. Empty rows fill the shorter column.
    mutating func addSection(left: [LabelledValue], right: [LabelledValue]) {
        let middle = Self.width / 2
        addSeparator(below: [middle])
        for index in 0..<max(left.count, right.count) {
            let leftText = text(index < left.count ? left[index] : .empty, width: middle - 3)
            let rightText = text(index < right.count ? right[index] : .empty, width: Self.width - middle - 4)
            lines.append("│ " + leftText + " │ " + rightText + " │")
        }
    }

    mutating func addBottomLine() {
        addSeparator(below: nil)
    }

    /// Adds the line above a section, or the last line of the report.
    ///
    /// - Parameter below: the columns in which the section below the line has a vertical line; nil: the report ends.
    private mutating func addSeparator(below: [Int]?) {
        let isTop = lines.isEmpty
        var line = isTop ? "╭" : below == nil ? "╰" : "├"
        for column in 1..<Self.width - 1 {
            switch (dividerColumnsAbove.contains(column), below?.contains(column) ?? false) {
            case (true, true): line += "┼"
            case (true, false): line += "┴"
            case (false, true): line += "┬"
            case (false, false): line += "─"
            }
        }
        line += isTop ? "╮" : below == nil ? "╯" : "┤"
        lines.append(line)
        dividerColumnsAbove = below ?? []
    }

    private func text(_ labelledValue: LabelledValue, width: Int) -> String {
        let value = String(labelledValue.value.prefix(width))
        let room = value.isEmpty ? width : max(0, width - value.count - 1)
        let wholeLabel = labelledValue.label
        let label = wholeLabel.count <= room ? wholeLabel : String(wholeLabel.prefix(max(0, room - 1))) + "…"
        let padded = label + String(repeating: " ", count: max(0, width - label.count - value.count)) + value
        guard isColoured, let sgrCode = labelledValue.style.sgrCode else { return padded }
        return "\u{1B}[\(sgrCode)m\(padded)\u{1B}[0m"
    }
}

extension TextReport {
    /// The maximum number of matches whose scores are listed. The figures above the list count all matches.
    static let scoresMax = 6
    static let wrongPhonesMax = 10

    /// Makes the report that a demo prints when it has ended.
    init(_ figures: DemoFigures, isColoured: Bool) {
        self.init(isColoured: isColoured)
        let season = [
            LabelledValue(label: "CAUSEWAY", value: "one real season on every phone", style: .heading),
            LabelledValue(
                label: "\(figures.matches) matches of the Indian Premier League at once",
                value: "\(Numeral.grouped(figures.balls)) balls in \(Numeral.oneDecimal(figures.seasonSeconds)) s"
            ),
        ]
        addSection(season + Self.audienceValues(figures))
        addSection(left: Self.commandValues(figures), right: Self.pushValues(figures))
        addSection(left: Self.freshnessValues(figures), right: Self.costValues(figures))
        addSection(Self.otherProcessValues(figures))
        addSection(Self.scoreValues(figures))
        addSection(Self.summaryValues(figures))
        addBottomLine()
    }

    private static func audienceValues(_ figures: DemoFigures) -> [LabelledValue] {
        guard figures.audiences > 0 else { return [] }
        let command = LabelledValue(
            label: "one command a ball, to the audience of its match",
            value: "\(Numeral.oneDecimal(figures.pushesPerCommand)) pushes a command"
        )
        guard let channels = figures.channels else { return [command] }
        return [
            command,
            LabelledValue(
                label:
                    "\(Numeral.grouped(channels.phones)) phones are on \(Numeral.grouped(channels.created)) channels",
                value: "\(Numeral.oneDecimal(channels.phonesPerBroadcast)) phones a broadcast"
            ),
        ]
    }

    private static func commandValues(_ figures: DemoFigures) -> [LabelledValue] {
        [LabelledValue(label: "COMMANDS", value: Numeral.grouped(figures.commands), style: .heading)]
            + figures.outcomes.map { entry in
                let percentage = Numeral.percent(entry.count, of: figures.commands)
                let padded = String(repeating: " ", count: max(0, 7 - percentage.count)) + percentage
                return LabelledValue(label: entry.outcome, value: "\(Numeral.grouped(entry.count))  \(padded)")
            }
    }

    private static func pushValues(_ figures: DemoFigures) -> [LabelledValue] {
        var values = [
            LabelledValue(label: "PUSHES", value: Numeral.grouped(figures.pushes), style: .heading),
            LabelledValue(label: "at priority 10", value: Numeral.grouped(figures.pushesAtPriority10)),
            LabelledValue(label: "at priority 5", value: Numeral.grouped(figures.pushesAtPriority5)),
            LabelledValue(label: "a second", value: Numeral.grouped(Int(figures.pushesPerSecond.rounded()))),
        ]
        if let channels = figures.channels {
            values += [
                LabelledValue(label: "BROADCASTS", value: Numeral.grouped(channels.broadcasts), style: .heading),
                LabelledValue(label: "arrived at phones", value: Numeral.grouped(channels.broadcastsReceived)),
            ]
        }
        let counts =
            [
                ("demoted from 10 to 5", figures.demotions), ("held until a token was registered", figures.released),
                ("retried", figures.retries), ("results written twice", figures.repeatedResults),
                ("invalidations", figures.invalidations), ("dead letters", figures.deadLetters),
            ] + figures.disturbances.map { ($0.what, $0.count) }
        for (label, count) in counts where count > 0 {
            values.append(LabelledValue(label: label, value: Numeral.grouped(count)))
        }
        return values
    }

    private static func freshnessValues(_ figures: DemoFigures) -> [LabelledValue] {
        let span = figures.audiences > 0 ? "from record to last phone" : "from record to response"
        var values = [LabelledValue(label: "FRESHNESS", value: span, style: .heading)]
        if let freshness = figures.freshness {
            values += [
                LabelledValue(label: "p50", value: "\(Numeral.grouped(Int(freshness.p50Milliseconds))) ms"),
                LabelledValue(label: "p99", value: "\(Numeral.grouped(Int(freshness.p99Milliseconds))) ms"),
                LabelledValue(label: "max", value: "\(Numeral.grouped(Int(freshness.maximumMilliseconds))) ms"),
            ]
        }
        return values
    }

    private static func costValues(_ figures: DemoFigures) -> [LabelledValue] {
        [
            LabelledValue(
                label: "THE WORKER",
                value: "\(Numeral.seconds(milliseconds: figures.worker.cpuMilliseconds)) of CPU",
                style: .heading
            ),
            LabelledValue(label: "for a push", value: "\(Numeral.oneDecimal(figures.workerMicrosecondsPerPush)) µs"),
            LabelledValue(label: "for a command", value: "\(Numeral.oneDecimal(figures.cpuMicrosecondsPerCommand)) µs"),
            LabelledValue(label: "resident memory, peak", value: Numeral.mebibytes(figures.worker.residentPeakBytes)),
        ]
    }

    private static func otherProcessValues(_ figures: DemoFigures) -> [LabelledValue] {
        let costs = figures.otherProcesses.map { process in
            "\(process.name) \(Numeral.oneDecimal(Double(process.usage.cpuMilliseconds) / 1_000)) s"
        }
        return [LabelledValue(label: "other CPU: " + costs.joined(separator: ", "), style: .faint)]
    }

    private static func scoreValues(_ figures: DemoFigures) -> [LabelledValue] {
        let step = max(1, figures.scores.count / scoresMax)
        let shownScores = stride(from: 0, to: figures.scores.count, by: step).prefix(scoresMax)
            .map { figures.scores[$0] }
        return [LabelledValue(label: "ON THE LOCK SCREENS", style: .heading)]
            + shownScores.map { LabelledValue(label: $0.result, value: "\($0.first)  \($0.second)") }
    }

    private static func summaryValues(_ figures: DemoFigures) -> [LabelledValue] {
        var values = [LabelledValue(label: figures.summary, style: figures.arePhonesCorrect ? .good : .bad)]
        if let channels = figures.channels {
            values += channels.summaryLines.map {
                LabelledValue(label: $0, style: channels.hasSucceeded ? .good : .bad)
            }
        }
        for phone in figures.wrongPhones.prefix(wrongPhonesMax) {
            values.append(LabelledValue(label: "  \(phone.activity) shows \(phone.shows)"))
        }
        if figures.wrongPhones.count > wrongPhonesMax {
            values.append(
                LabelledValue(label: "  and \(Numeral.grouped(figures.wrongPhones.count - wrongPhonesMax)) more")
            )
        }
        return values
    }
}
