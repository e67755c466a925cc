/// The bundle ids of the configured apps, at fixed addresses, because store calls borrow them.
package struct AppNames: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private let names: [UnsafeRawBufferPointer]

    package init(_ apps: [DeliveryConfiguration.App]) {
        let joinedNames = apps.flatMap(\.bundleIdentifier)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: joinedNames.count, alignment: 1)
        bytes.copyBytes(from: joinedNames)
        var end = 0
        names = apps.map {
            let start = end
            end += $0.bundleIdentifier.count
            return UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        }
        self.bytes = bytes
    }

    deinit { bytes.deallocate() }

    package subscript(appIndex: UInt16) -> UnsafeRawBufferPointer { names[Int(appIndex)] }
}
