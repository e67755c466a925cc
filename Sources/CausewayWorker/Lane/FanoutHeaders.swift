import Kafka
import LiveActivity

/// The headers of a record of the fan-out topic.
///
/// - `source`, for operators: topic, partition and offset of the command's record.
/// - `range`, for operators: the range's index, and the number of ranges.
/// - `state`, for the lane that reads the record: numbers separated by spaces, in the order of ``makeStateText(of:)``.
///   They are the fields of a ``FanoutInstruction`` that have no header below. The last number names the format.
/// - `channel`, instead of `range`, in the record of a broadcast: environment, storage policy, number of the command's
///   broadcasts, and the channel's id.
/// - `channels`, for a start to an audience with channels: each channel in the form of `channel`, separated by
///   semicolons.
/// - `without-channel`: why an audience that needs a channel had none.
/// - `dropped`: the oversize fields that the body has lost (``DroppedFieldsHeader``).
///
/// A release that does not know the last three headers ignores them. If the command has a trace, the record also has
/// the trace headers.
enum FanoutHeaders {
    /// The maximum number of headers of a fan-out record, without the two trace headers.
    static let headersMax = 6
    private static let numbersPerState = 15
    /// The accepted range of times in `state`; -1: the time is absent. No worker writes a time outside this range.
    private static let validMilliseconds = Int64(-1)...1 << 53

    /// Appends the headers of one fan-out record.
    ///
    /// - Parameter topic: the name of the commands topic.
    static func append(_ instruction: FanoutInstruction, topic: [UInt8], to headers: inout ProducedHeaders) {
        let topicName = String(decoding: topic, as: UTF8.self)
        append("source", "\(topicName)/\(instruction.partition)/\(instruction.offset)", to: &headers)
        if let channel = instruction.channel {
            append("channel", makeText(of: channel, broadcastCount: instruction.grant.broadcastCount), to: &headers)
        } else {
            append("range", "\(instruction.range.index)/\(instruction.range.rangeCount)", to: &headers)
        }
        append("state", makeStateText(of: instruction), to: &headers)
        if instruction.channelsForStarts.count > 0 {
            append("channels", makeText(of: instruction.channelsForStarts), to: &headers)
        }
        if let absence = instruction.channelAbsence { append("without-channel", "\(absence.name)", to: &headers) }
    }

    private static func append(_ name: StaticString, _ text: String, to headers: inout ProducedHeaders) {
        var text = text
        text.withUTF8 { headers.append(name, UnsafeRawBufferPointer($0)) }
    }

    /// Returns the instruction that a fan-out record's headers describe; nil if the headers are missing, malformed,
    /// or of another format.
    static func readInstruction(of message: borrowing Message) -> FanoutInstruction? {
        guard let state = message.headers?.lastValue(named: "state") else { return nil }
        return parseInstruction(
            decodeText(state),
            channel: message.headers?.lastValue(named: "channel").map { decodeText($0) },
            channelsForStarts: message.headers?.lastValue(named: "channels").map { decodeText($0) },
            absence: message.headers?.lastValue(named: "without-channel").map { decodeText($0) }
        )
    }

    private static func decodeText(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    static func makeText(of channel: AudienceChannel, broadcastCount: UInt8) -> String {
        "\(channel.environment.name) \(channel.storage.name) \(broadcastCount) \(channel.identifier)"
    }

    static func makeText(of channels: AudienceChannels) -> String {
        APNsEnvironment.allCases.compactMap { channels[$0] }
            .map { makeText(of: $0, broadcastCount: UInt8(channels.count)) }
            .joined(separator: separator)
    }

    private static let separator = ";"

    private static func parseChannels(_ text: String) -> AudienceChannels? {
        var channels = AudienceChannels()
        for part in text.split(separator: separator, omittingEmptySubsequences: false) {
            guard let (channel, broadcastCount) = parseChannel(String(part)), channels[channel.environment] == nil
            else {
                return nil
            }
            if channel.environment == .production { channels.production = channel } else { channels.sandbox = channel }
            guard channels.count <= Int(broadcastCount) else { return nil }
        }
        return channels
    }

    private static func parseChannel(_ text: String) -> (channel: AudienceChannel, broadcastCount: UInt8)? {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 4,
            let environment = APNsEnvironment.allCases.first(where: { $0.name.description == words[0] }),
            let storage = ChannelStoragePolicy.allCases.first(where: { $0.name.description == words[1] }),
            let broadcastCount = UInt8(words[2]),
            (1...APNsEnvironment.allCases.count).contains(Int(broadcastCount)),
            let identifier = ChannelIdentifier(String(words[3]))
        else { return nil }
        return (AudienceChannel(environment: environment, storage: storage, identifier: identifier), broadcastCount)
    }

    static func makeStateText(of instruction: FanoutInstruction) -> String {
        let (grant, alert) = (instruction.grant, instruction.carriedAlertVersion)
        let numbers: [any FixedWidthInteger] = [
            instruction.range.index, instruction.range.rangeCount,
            grant.timestamp, grant.priority, grant.frequentUpdatesPriority, grant.isDemoted ? 1 : 0,
            instruction.partition, instruction.offset,
            instruction.recordTimestampMilliseconds, instruction.receivedAtMilliseconds,
            instruction.admittedAtMilliseconds,
            alert?.timestamp ?? -1, alert?.sequence ?? 0, instruction.wasAlertRemovedByAge ? 1 : 0,
            instruction.channel == nil ? rangeFormatNumber : broadcastFormatNumber,
        ]
        return numbers.map { "\($0)" }.joined(separator: " ")
    }

    /// The last number of `state` in the record of a range. It names the format: a changed format gets another
    /// number.
    private static let rangeFormatNumber: UInt8 = 1
    /// The last number of `state` in the record of a broadcast. A release that does not know broadcasts rejects this
    /// number, and so does not mistake the record for the record of a range.
    private static let broadcastFormatNumber: UInt8 = 2

    /// Reads the headers of a fan-out record; nil if they are malformed or have another format.
    ///
    /// - Parameters:
    ///   - state: the header `state`.
    ///   - channel: the header `channel`.
    ///   - channelsForStarts: the header `channels`.
    ///   - absence: the header `without-channel`. A word that only a later release knows is ignored.
    static func parseInstruction(
        _ state: String,
        channel channelText: String? = nil,
        channelsForStarts channelsText: String? = nil,
        absence absenceText: String? = nil
    ) -> FanoutInstruction? {
        var numbers = state.split(separator: " ", omittingEmptySubsequences: false)[...]
        guard numbers.count == numbersPerState,
            numbers.removeLast() == "\(channelText == nil ? rangeFormatNumber : broadcastFormatNumber)"
        else { return nil }
        let broadcast = channelText.flatMap { parseChannel($0) }
        let channelsForStarts = channelsText.map { parseChannels($0) } ?? AudienceChannels()
        guard (channelText == nil) == (broadcast == nil), let channelsForStarts else { return nil }
        func readNumber<Number: FixedWidthInteger>(_: Number.Type) -> Number? { Number(numbers.removeFirst()) }
        func readBool() -> Bool? { readNumber(UInt8.self).flatMap { $0 < 2 ? $0 == 1 : nil } }
        guard let rangeIndex = readNumber(UInt16.self), let rangeCount = readNumber(UInt16.self),
            let range = SegmentRange(index: Int(rangeIndex), rangeCount: Int(rangeCount)),
            let timestamp = readNumber(Int64.self), (Limits.timestampMin...Limits.timestampMax).contains(timestamp),
            let priority = readNumber(UInt8.self), let frequentUpdatesPriority = readNumber(UInt8.self),
            let isDemoted = readBool(),
            [priority, frequentUpdatesPriority].allSatisfy(PushPriority.isValid),
            let partition = readNumber(Int32.self), let offset = readNumber(Int64.self), partition >= 0,
            AssignmentTable.validOffsets.contains(offset),
            let recordTimestampMilliseconds = readNumber(Int64.self),
            let receivedAtWallMilliseconds = readNumber(Int64.self),
            let admittedAtWallMilliseconds = readNumber(Int64.self),
            [recordTimestampMilliseconds, receivedAtWallMilliseconds, admittedAtWallMilliseconds]
                .allSatisfy(validMilliseconds.contains),
            let alertTimestamp = readNumber(Int64.self), (-1...Limits.timestampMax).contains(alertTimestamp),
            let alertSequence = readNumber(UInt64.self), let wasAlertRemovedByAge = readBool()
        else { return nil }
        return FanoutInstruction(
            range: range,
            channel: broadcast?.channel,
            grant: AudienceGrant(
                timestamp: timestamp,
                priority: priority,
                frequentUpdatesPriority: frequentUpdatesPriority,
                isDemoted: isDemoted,
                rangeCount: rangeCount,
                broadcastCount: broadcast?.broadcastCount ?? 0
            ),
            partition: partition,
            offset: offset,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            receivedAtMilliseconds: receivedAtWallMilliseconds,
            admittedAtMilliseconds: admittedAtWallMilliseconds,
            carriedAlertVersion: alertTimestamp < 0 ? nil : Version(timestamp: alertTimestamp, sequence: alertSequence),
            wasAlertRemovedByAge: wasAlertRemovedByAge,
            channelsForStarts: channelsForStarts,
            channelAbsence: absenceText.flatMap { word in
                ChannelAbsence.allCases.first { $0.name.description == word }
            }
        )
    }
}
