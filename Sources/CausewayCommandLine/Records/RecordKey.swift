import Foundation

/// The key of a record: the id of the activity, else of the audience, else of the channel, else of the
/// device. All records with the same id are thus in the same partition.
package enum RecordKey {
    private struct AddressFields: Decodable {
        var activity: String?
        var audience: String?
        var channel: Channel?
        var device: String?
    }

    /// The value of `channel`. In a command to an audience it is true or false, which is no id.
    private struct Channel: Decodable {
        var identifier: String?

        init(from decoder: any Decoder) throws { identifier = try? decoder.singleValueContainer().decode(String.self) }
    }

    /// Returns the key of a record; nil if the record names no activity, audience, channel or device, or cannot be
    /// decoded.
    package static func key(of record: [UInt8]) -> [UInt8]? {
        guard let addresses = try? JSONDecoder().decode(AddressFields.self, from: Data(record)) else { return nil }
        let channel = addresses.channel?.identifier
        return (addresses.activity ?? addresses.audience ?? channel ?? addresses.device).map { Array($0.utf8) }
    }
}
