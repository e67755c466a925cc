/// The bundle ids of the configured apps. Their bytes have fixed addresses, because store calls point to them.
package struct BundleIds: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private let identifiers: [UnsafeRawBufferPointer]

    package init(_ apps: [DeliveryConfiguration.App]) {
        let joinedIdentifiers = apps.flatMap(\.bundleId)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: joinedIdentifiers.count, alignment: 1)
        bytes.copyBytes(from: joinedIdentifiers)
        var endByteOffset = 0
        identifiers = apps.map {
            let startByteOffset = endByteOffset
            endByteOffset += $0.bundleId.count
            return UnsafeRawBufferPointer(rebasing: bytes[startByteOffset..<endByteOffset])
        }
        self.bytes = bytes
    }

    deinit { bytes.deallocate() }

    package subscript(appIndex: UInt16) -> UnsafeRawBufferPointer { identifiers[Int(appIndex)] }
}
