import LiveActivity
import Testing

@Suite struct DeviceRegistrationKeyTests {
    private func parts(of key: String) -> [String]? {
        Array(key.utf8)
            .withUnsafeBytes { key in
                guard let (device, type) = DeviceRegistrationKey.split(key) else { return nil }
                return [device, type].map { String(decoding: $0, as: UTF8.self) }
            }
    }

    @Test(arguments: [("phone-7", "RideAttributes"), ("a/b", "T"), ("/", "T"), ("é", "é")])
    func `A key is split into the device and the attributes type`(device: String, type: String) {
        #expect(parts(of: DeviceRegistrationKey.key(device: device, attributesType: type)) == [device, type])
    }

    @Test func `The parts of a key may be as long as ids`() {
        let (longest, tooLong) = (String(repeating: "k", count: 256), String(repeating: "k", count: 257))
        #expect(parts(of: "\(longest)/\(longest)") == [longest, longest])
        #expect(parts(of: "\(tooLong)/T") == nil && parts(of: "d/\(tooLong)") == nil)
    }

    @Test(arguments: ["", "phone-7", "/", "/T", "phone-7/"])
    func `A key without both parts is not split`(key: String) {
        #expect(parts(of: key) == nil)
    }
}
