import Foundation

/// The fields of a command, declared for `JSONDecoder`. The content state and the payload are not declared, so
/// `JSONDecoder` does not read them.
struct CodableCommand: Decodable {
    struct Aps: Decodable {
        struct Alert: Decodable {
            var title: String
            var body: String
            var sound: String?
        }

        var timestamp: Int64
        var event: String
        var staleDate: Double?
        var relevanceScore: Double?
        var alert: Alert?

        enum CodingKeys: String, CodingKey {
            case timestamp, event, alert
            case staleDate = "stale-date"
            case relevanceScore = "relevance-score"
        }
    }

    var app: String
    var activity: String
    var id: String?
    var sequence: UInt64?
    var priority: UInt8?
    var aps: Aps
}
