/// The sizes that an operator gives one topic. Nil keeps the plan's size.
package struct TopicSizeOverride: Sendable {
    package var topicKey: TopicKey
    /// The number of partitions, 1...10,000; nil: the plan's default.
    package var partitionCount: Int?
    /// How many hours the topic keeps a record, 1...8,784; nil: the plan's default. Always nil for a compacted topic.
    package var retentionHours: Int?

    /// Reads a text such as `commands:partitions=48,retention-hours=12`. One of the two numbers is enough.
    package init(text: String) throws(TopicSizeOverrideError) {
        let keyAndSizes = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let topicKey = TopicKey(rawValue: String(keyAndSizes[0])) else {
            let names = TopicKey.allCases.map(\.rawValue).joined(separator: ", ")
            throw TopicSizeOverrideError(description: "\(keyAndSizes[0]) is not a topic; the topics are \(names)")
        }
        self.topicKey = topicKey
        guard keyAndSizes.count == 2, !keyAndSizes[1].isEmpty else {
            throw TopicSizeOverrideError(
                description: "\(topicKey.rawValue): add partitions=NUMBER or retention-hours=NUMBER"
            )
        }
        for part in keyAndSizes[1].split(separator: ",", omittingEmptySubsequences: false) {
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let number = words.count == 2 ? Int(words[1]) : nil
            switch words[0] {
            case "partitions":
                partitionCount = try Self.requireInRange(1...10_000, number, topicKey, words[0])
            case "retention-hours" where topicKey.isCompacted:
                throw TopicSizeOverrideError(
                    description:
                        "\(topicKey.rawValue): retention-hours: the topic is compacted, and keeps the newest records"
                )
            case "retention-hours":
                retentionHours = try Self.requireInRange(1...8_784, number, topicKey, words[0])
            default:
                throw TopicSizeOverrideError(
                    description: "\(topicKey.rawValue): \(words[0]) is neither partitions nor retention-hours"
                )
            }
        }
    }

    private static func requireInRange(
        _ range: ClosedRange<Int>,
        _ number: Int?,
        _ topicKey: TopicKey,
        _ name: String
    ) throws(TopicSizeOverrideError) -> Int {
        guard let number, range.contains(number) else {
            throw TopicSizeOverrideError(
                description: "\(topicKey.rawValue): \(name) must be \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }
}

/// Says why the text of a topic's sizes cannot be read.
package struct TopicSizeOverrideError: Error, CustomStringConvertible {
    package var description: String
}
