import Foundation
import LiveActivity

/// Finds the key with which a record is written to Kafka: the first id that the record has, in the order audience,
/// activity, channel, device. So all records with the same address are in one partition. The audience comes first,
/// because in a start to an audience, `activity` is only a template for ids. The key of a device's registration also
/// has the attributes type (``DeviceRegistrationKey``).
package enum RecordKey {
    private struct AddressFields: Decodable {
        var activity: String?
        var audience: String?
        var channel: Channel?
        var device: String?
        var attributesType: String?
    }

    /// The field `channel` of a command. In a command to a channel, the field is the channel's id. In a command to an
    /// audience, the field is true or false, and `identifier` is nil.
    private struct Channel: Decodable {
        var identifier: String?

        init(from decoder: any Decoder) throws { identifier = try? decoder.singleValueContainer().decode(String.self) }
    }

    /// Returns the key of a record; nil if the record names no activity, audience, channel or device, or cannot be
    /// decoded.
    package static func key(of record: [UInt8]) -> [UInt8]? {
        guard let addresses = try? JSONDecoder().decode(AddressFields.self, from: Data(record)) else { return nil }
        let channel = addresses.channel?.identifier
        let device = addresses.device.map { device in
            addresses.attributesType.map { DeviceRegistrationKey.key(device: device, attributesType: $0) } ?? device
        }
        return (addresses.audience ?? addresses.activity ?? channel ?? device).map { Array($0.utf8) }
    }
}
