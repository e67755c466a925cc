import Foundation

extension LoopbackHTTPClient {
    /// Sends a JSON object, or no body, and returns the JSON object in the response. Throws an error if the response is
    /// not a success.
    @discardableResult
    func requestObject(_ method: String, _ target: String, _ body: [String: Any]? = nil) throws(LabError) -> [String:
        Any]
    {
        let bytes = if let body { try LabJSON.encode(body) } else { [UInt8]() }
        return try LabJSON.decodeObject(try requestSuccessfully(method, target, body: bytes))
    }
}

/// JSON objects as dictionaries. The lab has no types for responses, because it needs only a few properties of each.
enum LabJSON {
    /// Returns the JSON of an object with its properties sorted by name, so that equal objects give equal bytes.
    static func encode(_ object: [String: Any]) throws(LabError) -> [UInt8] {
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? JSONSerialization.data(withJSONObject: object, options: options) else {
            throw LabError("an object could not be written as JSON; its members are \(object.keys.sorted())")
        }
        return Array(data)
    }

    static func decodeObject(_ json: [UInt8]) throws(LabError) -> [String: Any] {
        guard let object = (try? JSONSerialization.jsonObject(with: Data(json))) as? [String: Any] else {
            throw LabError("no JSON object: \(String(decoding: json.prefix(200), as: UTF8.self))")
        }
        return object
    }
}
