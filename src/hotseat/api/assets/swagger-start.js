// A file of its own: the page's Content-Security-Policy allows no inline script.
SwaggerUIBundle({
  url: "/hotseat/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null, // it would send the document to a host on the internet
});
