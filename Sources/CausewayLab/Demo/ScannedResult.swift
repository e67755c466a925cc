import LiveActivity
import Numbers

/// The parts of a result record that the demo needs.
struct ScannedResult: Equatable {
    var outcome: Outcome?
    /// The outcome of a whole fan-out, or of one of its ranges.
    var fanoutOutcome: FanoutOutcome?
    /// Whether the result names an audience: the command went to the audience, or to one of its members.
    var namesAudience = false
    /// Whether the result names an activity or a device.
    var namesActivityOrDevice = false
    /// Whether the result is for one range of an audience's members.
    var isOfRange = false
    /// Whether the result names a channel: it is about a broadcast to an audience's channel, or about a command that
    /// names a channel itself.
    var namesChannel = false
    /// Members of the audience for whom APNs accepted the push.
    var deliveredMemberCount = 0
    var priority = 0
    var attemptCount = 0
    /// The number of older commands without a result of their own that this command superseded.
    var supersededCommandCount = 0
    /// Whether the push was sent at priority 5 instead of 10, because the budget was empty or had only its reserve
    /// left.
    var isDemoted = false
    /// Whether the result is about a record of the commands topic. False, for example, for the second result of a held
    /// command: this result is about the registration that released the command.
    var isFromCommandsTopic = false
    var sourcePartition = -1
    var sourceOffset: Int64 = -1
    /// The timestamp of the command's record, UNIX milliseconds; 0 if the result does not contain one.
    var recordTimestampMilliseconds: Int64 = 0
    var responseAtMilliseconds: Int64 = 0

    /// Whether the result is about one member of an audience, because APNs refused the push to this member. The whole
    /// command has another result.
    var isOfMember: Bool { namesAudience && namesActivityOrDevice }

    /// Whether the result has an outcome, and the partition and offset of the record that the result is about.
    var hasOutcomeAndSource: Bool {
        (outcome != nil || fanoutOutcome != nil) && sourcePartition >= 0 && sourceOffset >= 0
    }
}

extension ScannedResult {
    /// Scans a result record once, without creating a string. The scan must be cheap: 700,000 results arrive in a
    /// minute, and the worker runs on the same processors.
    ///
    /// - Parameter commandsTopic: the name of the commands topic, for ``isFromCommandsTopic``.
    init(scanning record: UnsafeRawBufferPointer, commandsTopic: String = CommandProducer.commandsTopicName) {
        var offset = 0
        var depth = 0
        // The first letter of the key of the inner object that is being scanned, such as `s` for `source`; 0 if none is
        // being scanned.
        var sectionFirstLetter: UInt8 = 0
        while offset < record.count {
            switch record[offset] {
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                sectionFirstLetter = 0
            case UInt8(ascii: "\""):
                let key = Self.rangeBetweenQuotes(in: record, at: offset)
                offset = key.upperBound + 1
                guard offset < record.count, record[offset] == UInt8(ascii: ":") else { continue }
                offset += 1
                let name = UnsafeRawBufferPointer(rebasing: record[key])
                readMember(
                    name,
                    record,
                    at: &offset,
                    depth: depth,
                    sectionFirstLetter: &sectionFirstLetter,
                    commandsTopic: commandsTopic
                )
                continue
            default: break
            }
            offset += 1
        }
    }

    /// Returns the offsets of the bytes between the quotes of the string that begins at `start`.
    private static func rangeBetweenQuotes(in record: UnsafeRawBufferPointer, at start: Int) -> Range<Int> {
        var end = start + 1
        while end < record.count, record[end] != UInt8(ascii: "\"") {
            end += record[end] == UInt8(ascii: "\\") ? 2 : 1
        }
        return start + 1..<max(start + 1, min(end, record.count))
    }

    private mutating func readMember(
        _ name: UnsafeRawBufferPointer,
        _ record: UnsafeRawBufferPointer,
        at offset: inout Int,
        depth: Int,
        sectionFirstLetter: inout UInt8,
        commandsTopic: String
    ) {
        guard offset < record.count else { return }
        switch record[offset] {
        case UInt8(ascii: "{"):
            if depth == 1 { sectionFirstLetter = name.first ?? 0 }
        case UInt8(ascii: "["):
            if depth == 1, name.elementsEqual("segments".utf8) { isOfRange = true }
        case UInt8(ascii: "\""):
            let value = Self.rangeBetweenQuotes(in: record, at: offset)
            let text = UnsafeRawBufferPointer(rebasing: record[value])
            if depth == 1, name.elementsEqual("outcome".utf8) {
                outcome = Outcome(name: text)
                fanoutOutcome = FanoutOutcome.allCases.first { $0.name.isEqual(to: text) }
            }
            if depth == 1, name.elementsEqual("audience".utf8) { namesAudience = true }
            if depth == 1, name.elementsEqual("activity".utf8) || name.elementsEqual("device".utf8) {
                namesActivityOrDevice = true
            }
            // A result has an `environment` only if it names a channel. The key `channel` proves less: it is `none` in
            // the result of a command whose audience lacked a channel.
            if depth == 1, name.elementsEqual("environment".utf8) { namesChannel = true }
            if depth == 2, sectionFirstLetter == UInt8(ascii: "s"), name.elementsEqual("topic".utf8) {
                isFromCommandsTopic = text.elementsEqual(commandsTopic.utf8)
            }
            offset = value.upperBound + 1
        case UInt8(ascii: "t"):
            if depth == 1, name.elementsEqual("demoted".utf8) { isDemoted = true }
        default:
            guard let number = Self.parseNumber(record, at: &offset) else { return }
            readNumber(name, number, depth: depth, sectionFirstLetter: sectionFirstLetter)
        }
    }

    private mutating func readNumber(
        _ name: UnsafeRawBufferPointer,
        _ number: Int64,
        depth: Int,
        sectionFirstLetter: UInt8
    ) {
        switch (depth, sectionFirstLetter) {
        case (1, _):
            if name.elementsEqual("priority".utf8) { priority = Int(number) }
            if name.elementsEqual("attempts".utf8) { attemptCount = Int(number) }
            if name.elementsEqual("superseded".utf8) { supersededCommandCount = Int(number) }
        case (2, UInt8(ascii: "s")):
            if name.elementsEqual("partition".utf8) { sourcePartition = Int(number) }
            if name.elementsEqual("offset".utf8) { sourceOffset = number }
        case (2, UInt8(ascii: "t")):
            if name.elementsEqual("record".utf8) { recordTimestampMilliseconds = number }
            // In the result of an audience, `last` is the time of APNs' last response.
            if name.elementsEqual("responded".utf8) || name.elementsEqual("last".utf8) {
                responseAtMilliseconds = number
            }
        case (2, UInt8(ascii: "m")):
            if name.elementsEqual("delivered".utf8) { deliveredMemberCount = Int(number) }
        default: break
        }
    }

    private static func parseNumber(_ record: UnsafeRawBufferPointer, at offset: inout Int) -> Int64? {
        let digits = record[offset...].prefix(18).prefix { $0 &- UInt8(ascii: "0") < 10 }
        offset += digits.count
        return Decimal.parse(UnsafeRawBufferPointer(rebasing: digits)).map { Int64($0) }
    }
}

extension Outcome {
    init?(name: UnsafeRawBufferPointer) {
        guard let outcome = Self.allCases.first(where: { $0.name.isEqual(to: name) }) else { return nil }
        self = outcome
    }
}

extension StaticString {
    fileprivate func isEqual(to text: UnsafeRawBufferPointer) -> Bool {
        text.count == utf8CodeUnitCount
            && text.elementsEqual(UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount))
    }
}
