import Foundation

/// Finds the key of a record: the first id that the record has, in the order audience, activity, channel, device. So
/// all records with the same address are in the same partition. The audience comes first, because the activity of a
/// start to an audience is only a template of ids.
package enum RecordKey {
    private struct AddressFields: Decodable {
        var activity: String?
        var audience: String?
        var channel: Channel?
        var device: String?
    }

    /// The value of `channel`. In a command to an audience, `channel` is true or false: then there is no id.
    private struct Channel: Decodable {
        var identifier: String?

        init(from decoder: any Decoder) throws { identifier = try? decoder.singleValueContainer().decode(String.self) }
    }

    /// Returns the key of a record; nil if the record names no activity, audience, channel or device, or cannot be
    /// decoded.
    package static func key(of record: [UInt8]) -> [UInt8]? {
        guard let addresses = try? JSONDecoder().decode(AddressFields.self, from: Data(record)) else { return nil }
        let channel = addresses.channel?.identifier
        return (addresses.audience ?? addresses.activity ?? channel ?? addresses.device).map { Array($0.utf8) }
    }
}
