import Foundation

/// The key of a record: the activity's id, else the audience's, else the channel's, else the device's. So all records
/// about one of them are in one partition.
package enum RecordKey {
    private struct Addresses: Decodable {
        var activity: String?
        var audience: String?
        var channel: Channel?
        var device: String?
    }

    /// With an audience, `channel` may also be true or false.
    private struct Channel: Decodable {
        var identifier: String?

        init(from decoder: any Decoder) throws { identifier = try? decoder.singleValueContainer().decode(String.self) }
    }

    /// Nil if the record has no such id, or is not JSON.
    package static func key(of record: [UInt8]) -> [UInt8]? {
        guard let addresses = try? JSONDecoder().decode(Addresses.self, from: Data(record)) else { return nil }
        let channel = addresses.channel?.identifier
        return (addresses.activity ?? addresses.audience ?? channel ?? addresses.device).map { Array($0.utf8) }
    }
}
