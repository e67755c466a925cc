import Foundation

/// The key of a record: the activity's id, else the audience's, else the device's, so that all that concerns one of
/// them is in one partition.
package enum RecordKey {
    private struct Addresses: Decodable {
        var activity: String?
        var audience: String?
        var device: String?
    }

    /// Nil if the record names none, or is not JSON.
    package static func key(of record: [UInt8]) -> [UInt8]? {
        guard let addresses = try? JSONDecoder().decode(Addresses.self, from: Data(record)) else { return nil }
        return (addresses.activity ?? addresses.audience ?? addresses.device).map { Array($0.utf8) }
    }
}
